-- Takes the lock from its holders, if the holder is the expected one. The queue stays.
-- KEYS: lock, fence, queue, readers, people, taken
-- ARGV: record, ttl_ms, floor, expect_fence, not_after_ms
-- Returns: {fence, left_ms, ''} when taken, also when asked again with the same token;
--   {0, held_fence, public} when expect_fence is not the holder's (0 and '' when the lock is free);
--   the error TOOLATE when it came too late
local lock, fence, queue, readers, people, taken = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local record, ttl_ms, floor, expect_fence, not_after_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- Uses: clock, not_after, fence, record, waiters, readers, advance_queue, lease, holders
local refusal = refuse_late(not_after_ms)
if refusal then return refusal end
local token = string.sub(record, 3, 34)
local count, left_ms = read_lease(token, read_record())
if count then
  redis.call('EXPIRE', fence, 172800)
  return {count, left_ms, ''}
end
local held = list_holders()
-- Of several readers the latest counts, because a reader that came after the caller's check must be noticed.
local held_fence, longest_ms = 0, 1
for _, hold in ipairs(held) do
  held_fence, longest_ms = math.max(held_fence, hold.fence), math.max(longest_ms, hold.left_ms)
end
if expect_fence ~= '' and tonumber(expect_fence) ~= held_fence then
  return {0, held_fence, held[1] and held[1].public or ''}
end

-- Before any other write: a server that is out of memory refuses only the first such write of a script.
count = new_fence(fence, floor)
for _, hold in ipairs(held) do
  redis.call('HDEL', people, hold.token)
  redis.pcall('PUBLISH', 'leasehold:' .. hold.channel, 'taken ' .. hold.ticket)
end
redis.call('DEL', readers)
local mode = string.sub(record, 2, 2)
local channel, ticket, _, public = read_rest(string.sub(record, 35))
local holder = string.sub(public, string.find(public, ' ', 1, true) + 1)
grant(count, token, token, mode, channel, ticket, ttl_ms, holder)
if held[1] then
  -- Keeps the reason for the losers, for as long as they may believe that they hold the lock.
  redis.call('SET', taken, whole(count), 'PX', whole(math.max(longest_ms, redis.call('PTTL', taken))))
end
if mode == 's' then advance_queue(nil, 's') end
return {count, tonumber(ttl_ms), ''}
