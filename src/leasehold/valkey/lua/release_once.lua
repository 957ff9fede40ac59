-- Ends the lease of this token, for callers whose driver may ask twice without telling.
-- KEYS: lock, released
-- ARGV: token, remember_ms
-- Returns: 1 when ended, also when asked again; 0 when it was gone before
local lock, released = KEYS[1], KEYS[2]
local token, remember_ms = ARGV[1], ARGV[2]

-- Uses: record
if read_record(lock) == token then
  redis.call('DEL', lock)
  redis.call('SET', released, token, 'PX', remember_ms)
  return 1
end
return redis.call('GET', released) == token and 1 or 0
