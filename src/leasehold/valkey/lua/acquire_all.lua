-- Grants several locks at once if every one of them is free, and none of them otherwise.
-- KEYS: lock, fence, …
-- ARGV: record, ttl_ms, floor, …
-- Returns: {{fence, left_ms}, …} when granted, also when asked again with the same tokens; the number of the
--   first lock that is not free otherwise
local keys, arguments = KEYS, ARGV

-- Uses: clock, fence
local is_mine = {}
for number = 1, #keys / 2 do
  local lock = keys[2 * number - 1]
  local record = redis.call('GET', lock)
  is_mine[number] = record and string.sub(record, 1, 34) == string.sub(arguments[3 * number - 2], 1, 34)
  if record and not is_mine[number] then return number end
end
local reply = {}
for number = 1, #keys / 2 do
  local lock, fence = keys[2 * number - 1], keys[2 * number]
  local record, ttl_ms, floor = arguments[3 * number - 2], arguments[3 * number - 1], arguments[3 * number]
  if is_mine[number] then
    local count = tonumber(redis.call('GET', fence)) or next_fence(fence, floor)
    reply[number] = {count, redis.call('PTTL', lock)}
  else
    local count = next_fence(fence, floor)
    redis.call('SET', lock, record, 'PX', ttl_ms)
    reply[number] = {count, tonumber(ttl_ms)}
  end
end
return reply
