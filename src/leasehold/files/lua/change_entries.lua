-- Changes the history entries of a session: all of the changes, or none.
-- KEYS: session, history
-- ARGV: digest, ttl_ms, history_ms, changes
-- Returns: 1 when changed, also when repeated; 0 when an entry is not as expected; -1 when the session is another one
local session, history = KEYS[1], KEYS[2]
local digest, ttl_ms, history_ms, changes = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call('HGET', session, 'digest') ~= digest then return -1 end
-- Each is {field, expected, entry}. Expected '*' means any entry or none, '?' and an entry that one or none. An empty
-- entry removes the field.
local decoded = cjson.decode(changes)
for _, change in ipairs(decoded) do
  local field, expected, entry = change[1], change[2], change[3]
  local present = redis.call('HGET', history, field) or ''
  local is_expected = expected == '*' or present == expected or present == entry
  if string.sub(expected, 1, 1) == '?' then
    is_expected = is_expected or present == '' or '?' .. present == expected
  end
  if not is_expected then return 0 end
end
for _, change in ipairs(decoded) do
  if change[3] == '' then
    redis.call('HDEL', history, change[1])
  else
    redis.call('HSET', history, change[1], change[3])
  end
end
redis.call('PEXPIRE', session, ttl_ms)
redis.call('PEXPIRE', history, history_ms)
return 1
