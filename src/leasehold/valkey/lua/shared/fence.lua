-- A former primary that is cut off may grant at the same moment as the one promoted in its place. So that both never mint
-- the same fence, a server whose floor is written '@N' uses one number of every 64: that of its replication id, which a
-- promotion changes. A floor that is far ahead of the clock is left as it is.
local function own_number(count, floor)
  if string.sub(floor, 1, 1) ~= '@' or count > now_us + 100000000 then return count end
  local info = redis.pcall('INFO', 'replication')
  -- This user may lack the permission.
  if type(info) ~= 'string' then return count end
  local at = string.find(info, 'master_replid:', 1, true)
  local own = at and tonumber(string.sub(info, at + 14, at + 15), 16)
  if not own then return count end
  -- Without an offset it was never promoted, and the former id is all zeros.
  if not string.find(info, 'second_repl_offset:-1', at, true) then
    local former = string.match(info, 'master_replid2:(%x%x)', at)
    if former and own % 64 == tonumber(former, 16) % 64 then own = own + 1 end
  end
  return count + (own - count) % 64
end

-- Fences of one lock always grow. The counter continues while it exists. One that is missing or behind
-- the floor (FLUSHALL, a restart from an older snapshot, a promoted stale replica) starts again at the
-- server's own clock, which is ahead of every fence granted before. Where reconnects are not seen, and on replicated
-- servers, the floor is written '@N': start again at the clock every time, and at N at least.
-- The counter outlives every lease: it expires two days after its last use.
local function restart_fence(fence, floor)
  local least = tonumber(floor) or tonumber(string.sub(floor, 2))
  -- The counter as well: the clock may have been set back since.
  local count = own_number(math.max(now_us, least, tonumber(redis.call('GET', fence)) or 0), floor)
  redis.call('SET', fence, whole(count), 'EX', 172800)
  return count
end

local function next_fence(fence, floor)
  local count = redis.call('INCR', fence)
  if count < (tonumber(floor) or math.huge) then return restart_fence(fence, floor) end
  redis.call('EXPIRE', fence, 172800)
  return count
end

-- The next fence, by the clock every time: the floor may come from a connection older than a loss of the server's data.
local function new_fence(fence, floor)
  local least = tonumber((string.gsub(floor, '^@', '')))
  local count = own_number(math.max(now_us, least, (redis.call('GET', fence) or 0) + 1), floor)
  redis.call('SET', fence, whole(count), 'EX', 172800)
  return count
end
