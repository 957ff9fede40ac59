-- Grants the lock if nobody is in the way, and otherwise lets the asker join the queue.
-- KEYS: lock, fence, queue, readers, people
-- ARGV: record, ttl_ms, floor, wait_ms, live_ms
-- Returns: fence when granted; {fence, left_ms, ''} when this token has it already or gets it from the queue;
--   {0, left_ms, public, kind, now_ms, waiters, position} when it is busy; position is 0 for those who do not wait.
--   A bare number because a table costs 1.8 of 6 µs.
local lock, fence, queue, readers, people = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local record, ttl_ms, floor, wait_ms, live_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- The path that counts: a free lock whose counter is where it should be. Three calls, no closure.
local mode = string.sub(record, 2, 2)
local is_free = mode == 'x' and redis.call('SET', lock, record, 'NX', 'PX', ttl_ms)
if is_free then
  local count = redis.pcall('INCR', fence)
  if type(count) == 'table' then
    -- Refused means that nothing was changed, so the grant goes too.
    redis.call('DEL', lock)
    return count
  end
  if count >= (tonumber(floor) or math.huge) then
    redis.call('EXPIRE', fence, 172800)
    return count
  end
end

-- Uses: clock, fence
if is_free then return restart_fence(fence, floor) end

-- Uses: record, waiting, reading, granting, holding, leaving, busy
local token = string.sub(record, 3, 34)
local count, left_ms = holding(token)
if count then
  if is_unclaimed(token) then
    extend(token, tonumber(ttl_ms))
    left_ms = tonumber(ttl_ms)
  end
  return {count, left_ms, ''}
end
-- A plain record means that nobody waits, so there is nothing to settle for those who do not wait either.
if wait_ms == '0' and read_record() == 'x' then return describe_busy(token) end

local channel, ticket, _, public = read_rest(string.sub(record, 35))
local last = redis.call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')
redis.call('ZADD', queue, 'NX', (tonumber(last[2]) or 0) + 1, token)
local holder = string.sub(public, string.find(public, ' ', 1, true) + 1)
write_entry(token, mode, channel, ticket, ttl_ms, whole(now_ms + wait_ms), floor, holder)
redis.call('HSET', people, channel, whole(now_ms + live_ms))
keep_queue(tonumber(live_ms))
if settle(token) then
  count, left_ms = holding(token)
  return {count, left_ms, ''}
end
if wait_ms == '0' then leave(token) else guard_queue() end
return describe_busy(token)
