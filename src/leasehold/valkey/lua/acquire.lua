-- Grants the lock if nobody holds it or is first in line for it, and counts the grant.
-- KEYS: lock, fence, queue, readers
-- ARGV: token, ttl_ms, floor, now_ms, holder
-- Returns: fence when granted; {fence, left_ms, ''} when this token holds it already;
--   {0, left_ms, holding} when somebody else does. A bare number because a table costs 1.8 of 8 µs.
-- Uses: clock, fence, record
local lock, fence, queue, readers = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl_ms, floor, now_ms, holder = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- One look at all three keys: this is the path that counts.
if redis.call('EXISTS', lock, queue, readers) == 0 then
  local count = next_fence(fence, floor)
  write_record(lock, token, count, now_ms, holder, ttl_ms)
  return count
end

local held_by, holding = read_record(lock)
if held_by == token then
  return {tonumber(string.match(holding, '^%d+')), redis.call('PTTL', lock), ''}
end
return {0, redis.call('PTTL', lock), holding or ''}
