-- The next fence of a lock, and a day more for its counter.
-- It counts on while the counter is there. A counter that is missing or behind the floor (FLUSHALL, a
-- restart from an older snapshot, a promoted stale replica) starts again at the server's own clock,
-- which is ahead of every fence granted before. A floor of '@N' means that clock, or N if that is more.
local function next_fence(fence, floor)
  local least = tonumber(floor) or math.max(now_us(), tonumber(string.sub(floor, 2)))
  local count = redis.call('INCR', fence)
  if count < least then
    count = math.max(now_us(), least)
    redis.call('SET', fence, string.format('%.0f', count), 'EX', 86400)
  else
    redis.call('EXPIRE', fence, 86400)
  end
  return count
end
