-- The guard of a value: the newest fence seen, the last write, and the last write before that fence.
-- A driver without a reply may repeat its write after a newer holder's: then the reply says that it was done.
local function read_guard(guard)
  local entry = redis.call('GET', guard) or '0  '
  local seen, last, before = string.match(entry, '^(%d+) (%x*) (%x*)$')
  if not seen then error('LEASEHOLD-GUARD this key holds something else: ' .. guard) end
  return seen, last, before
end

-- Expires after keep_ms, but not before the previous expiry of the guard, nor before the value.
local function write_guard(guard, value, seen, last, before, keep_ms)
  keep_ms = math.max(tonumber(keep_ms), redis.call('PTTL', guard), redis.call('PTTL', value))
  redis.call('SET', guard, seen .. ' ' .. last .. ' ' .. before, 'PX', string.format('%.0f', keep_ms))
end
