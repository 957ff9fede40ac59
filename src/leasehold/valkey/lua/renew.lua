-- Extends the lease of this token. Never re-creates one that is gone.
-- KEYS: lock, fence, taken
-- ARGV: token, own_fence, ttl_ms
-- Returns: 1 when extended, 0 when expired, -1 when taken
local lock, fence, taken = KEYS[1], KEYS[2], KEYS[3]
local token, own_fence, ttl_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3]

-- Uses: record
if read_record(lock) ~= token then
  local taken_by = tonumber(redis.call('GET', taken)) or 0
  return taken_by > own_fence and -1 or 0
end
redis.call('PEXPIRE', lock, ttl_ms)
-- The counter must outlive the lease, however long that is held.
redis.call('EXPIRE', fence, 172800)
return 1
