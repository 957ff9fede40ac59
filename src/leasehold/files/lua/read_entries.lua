-- Reads the history entries of a session.
-- KEYS: session, history
-- ARGV: digest, ttl_ms, history_ms
-- Returns: {1, field, entry, …}, or {-1} when the session is another one
local session, history = KEYS[1], KEYS[2]
local digest, ttl_ms, history_ms = ARGV[1], ARGV[2], ARGV[3]

if redis.call('HGET', session, 'digest') ~= digest then return {-1} end
redis.call('PEXPIRE', session, ttl_ms)
redis.call('PEXPIRE', history, history_ms)
local reply = {1}
for _, part in ipairs(redis.call('HGETALL', history)) do
  reply[#reply + 1] = part
end
return reply
