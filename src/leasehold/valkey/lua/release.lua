-- Ends the lease of this token, and only that.
-- KEYS: lock, taken
-- ARGV: token, own_fence
-- Returns: 1 when ended, 0 when it had expired, -1 when it had been taken
-- Uses: record
local lock, taken = KEYS[1], KEYS[2]
local token, own_fence = ARGV[1], tonumber(ARGV[2])

if read_record(lock) == token then
  redis.call('DEL', lock)
  return 1
end
local taken_by = tonumber(redis.call('GET', taken) or 0)
return taken_by > own_fence and -1 or 0
