-- Extends the lease of this token. Never re-creates one that has ended.
-- KEYS: lock, fence, queue, readers, people, taken
-- ARGV: token, own_fence, ttl_ms
-- Returns: 1 when extended, 0 when expired, -1 when taken
local lock, fence, queue, readers, people, taken = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token, own_fence, ttl_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3]

-- The fast path: the queue is empty. The counter must outlive the lease, which may be renewed for any time.
local record = redis.call('GET', lock)
if record and string.sub(record, 1, 34) == '2x' .. token then
  redis.call('PEXPIRE', lock, ttl_ms)
  redis.call('EXPIRE', fence, 172800)
  return 1
end

-- Uses: clock, fence, record, waiters, readers, lease
local kind, held_by, rest = read_record()
if not left_of(token, kind, held_by, rest) then
  local taken_by = tonumber(redis.call('GET', taken)) or 0
  return taken_by > own_fence and -1 or 0
end
-- First, because a server that is out of memory allows the writes of a script that has begun with a small one.
redis.call('EXPIRE', fence, 172800)
extend(token, kind, rest, tonumber(ttl_ms))
return 1
