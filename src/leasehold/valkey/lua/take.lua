-- Grants the lock whoever holds it, unless the holder is not the expected one.
-- KEYS: lock, fence, taken
-- ARGV: token, ttl_ms, floor, now_ms, holder, expect_fence
-- Returns: {fence, left_ms, ''} when taken, also when asked again with the same token;
--   {0, held_fence, holding} when expect_fence is not the holder's (0 and '' when nobody holds it)
-- Uses: clock, fence, record
local lock, fence, taken = KEYS[1], KEYS[2], KEYS[3]
local token, ttl_ms, floor, now_ms, holder, expect_fence = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local held_by, holding = read_record(lock)
local held_fence = held_by and string.match(holding, '^%d+') or '0'
if held_by == token then
  return {tonumber(held_fence), redis.call('PTTL', lock), ''}
end
if expect_fence ~= '' and expect_fence ~= held_fence then
  return {0, tonumber(held_fence), holding or ''}
end
local left_ms = redis.call('PTTL', lock)
local count = next_fence(fence, floor)
write_record(lock, token, count, now_ms, holder, ttl_ms)
if held_by then
  -- Tells the old holder, for as long as it may still believe in its lease, why it is gone.
  redis.call('SET', taken, string.format('%.0f', count), 'PX', math.max(left_ms, 1))
end
return {count, tonumber(ttl_ms), ''}
