-- Grants the lock whoever holds it, unless the holder is not the expected one.
-- KEYS: lock, fence, taken
-- ARGV: record, ttl_ms, floor, expect_fence
-- Returns: {fence, left_ms, ''} when taken, also when asked again with the same token;
--   {0, held_fence, public} when expect_fence is not the holder's (0 and '' when nobody holds it)
local lock, fence, taken = KEYS[1], KEYS[2], KEYS[3]
local record, ttl_ms, floor, expect_fence = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- Uses: clock, fence, record
local held_by, held = read_record(lock)
local held_fence = held_by and redis.call('GET', fence)
local left_ms = redis.call('PTTL', lock)
if held_by == string.sub(record, 3, 34) then
  return {held_fence and tonumber(held_fence) or next_fence(fence, floor), left_ms, ''}
end
if expect_fence ~= '' and expect_fence ~= (held_fence or '0') then
  return {0, tonumber(held_fence or 0), held or ''}
end
local count = next_fence(fence, floor)
redis.call('SET', lock, record, 'PX', ttl_ms)
if held_by then
  -- Tells whoever lost the lock this way, for as long as they may believe in their lease, why it is gone.
  local told_ms = math.max(left_ms, redis.call('PTTL', taken), 1)
  redis.call('SET', taken, string.format('%.0f', count), 'PX', told_ms)
end
return {count, tonumber(ttl_ms), ''}
