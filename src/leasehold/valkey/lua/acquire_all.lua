-- Grants several locks at once if all of them are free, and none otherwise.
-- KEYS: lock, fence, …
-- ARGV: record, ttl_ms, floor, not_after_ms, …
-- Returns: {{fence, left_ms}, …} when granted, also when asked again with the same tokens; the number of the
--   first lock that is not free otherwise; the error TOOLATE when it came too late
local keys, arguments = KEYS, ARGV

-- Uses: clock, not_after, fence
-- The remaining ms of the lease that this record grants its token; nil if the lock has or had another holder.
local function left_of(lock, held, record)
  if string.sub(held, 1, 1) ~= '2' or string.sub(held, 3, 34) ~= string.sub(record, 3, 34) then return end
  if string.sub(held, 2, 2) == 'x' then return redis.call('PTTL', lock) end
  local left_ms = string.match(held, '^%d+ (%d+) ', 51) - now_ms
  return left_ms > 0 and left_ms or nil
end

local left_ms = {}
for number = 1, #keys / 2 do
  local lock, record = keys[2 * number - 1], arguments[4 * number - 3]
  local held = redis.call('GET', lock)
  left_ms[number] = held and left_of(lock, held, record)
  if held and not left_ms[number] then return number end
end
local reply = {}
for number = 1, #keys / 2 do
  local lock, fence = keys[2 * number - 1], keys[2 * number]
  local record, ttl_ms, floor, not_after_ms = arguments[4 * number - 3], arguments[4 * number - 2], arguments[4 * number - 1], arguments[4 * number]
  -- The same for all of them, and the clock of a script stands still: if one is too late, so was the first.
  local refusal = refuse_late(not_after_ms)
  if refusal then return refusal end
  if left_ms[number] then
    local count = tonumber(redis.call('GET', fence)) or next_fence(fence, floor)
    redis.call('EXPIRE', fence, 172800)
    reply[number] = {count, left_ms[number]}
  else
    local count = next_fence(fence, floor)
    redis.call('SET', lock, record, 'PX', ttl_ms)
    reply[number] = {count, tonumber(ttl_ms)}
  end
end
return reply
