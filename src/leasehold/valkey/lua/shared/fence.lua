-- Fences of one lock always grow. The counter continues while it exists. One that is missing or behind
-- the floor (FLUSHALL, a restart from an older snapshot, a promoted stale replica) starts again at the
-- server's own clock, which is ahead of every fence granted before. Where reconnects are not seen, the
-- floor is written '@N': start again at the clock every time, and at N at least.
-- The counter outlives every lease: it expires two days after its last use.
local function restart_fence(fence, floor)
  local least = tonumber(floor) or tonumber(string.sub(floor, 2))
  -- The counter as well: the clock may have been set back since.
  local count = math.max(now_us, least, tonumber(redis.call('GET', fence)) or 0)
  redis.call('SET', fence, whole(count), 'EX', 172800)
  return count
end

local function next_fence(fence, floor)
  local count = redis.call('INCR', fence)
  if count < (tonumber(floor) or math.huge) then return restart_fence(fence, floor) end
  redis.call('EXPIRE', fence, 172800)
  return count
end
