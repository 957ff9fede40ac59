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

-- Uses: record, people, reading, granting, holding, busy
local token = string.sub(record, 3, 34)
local kind, held_by, rest = read_record()
local count, left_ms = holding(token, kind, held_by, rest)
if count then
  -- A lease that was handed over is claimed by asking again.
  local is_handed_over = kind == 'g' or kind == 's' and string.sub(redis.call('HGET', people, token), 1, 1) == 'g'
  if not is_handed_over then return {count, left_ms, ''} end
  extend(token, kind, rest, tonumber(ttl_ms))
  return {count, tonumber(ttl_ms), ''}
end
-- A plain record means that nobody waits, so there is nothing to settle for those who do not wait either.
if wait_ms == '0' and kind == 'x' then return describe_busy(kind, rest, 0, 0) end

-- A reader who was late stands in line like everybody else.
if kind == 's' and redis.call('ZSCORE', readers, token) then redis.call('ZREM', readers, token) end

-- Uses: joining
local waiters, position = join(record, mode, token, ttl_ms, floor, wait_ms, live_ms)
if settle(token, kind, rest) then return {redis.call('GET', fence) + 0, tonumber(ttl_ms), ''} end
if not is_written(kind, rest) then kind, held_by, rest = read_record() end
if wait_ms == '0' then
  redis.call('ZREM', queue, token)
  redis.call('HDEL', people, token)
  return describe_busy(kind, rest, waiters - 1, 0)
end
if kind == 'x' then kind, held_by, rest = guard_queue(held_by, rest) end
return describe_busy(kind, rest, waiters, position)
