-- Ends the lease of this token as release does, for callers whose driver may ask twice without telling.
-- KEYS: lock, fence, queue, readers, people, released
-- ARGV: token, remember_ms
-- Returns: 1 when a lease has ended, also when asked again; 0 when it was gone before
local lock, fence, queue, readers, people, released = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token, remember_ms = ARGV[1], ARGV[2]

-- Uses: clock, fence, record, people, reading, granting, holding, leaving
if leave(token) == 1 then
  redis.call('SET', released, token, 'PX', remember_ms)
  return 1
end
return redis.call('GET', released) == token and 1 or 0
