-- What is kept beside a value: the newest fence seen, the last write, and the last one before that fence came.
-- A driver that got no reply may ask again, after somebody newer came: it is told then that its write was done.
local function read_guard(guard)
  local entry = redis.call('GET', guard) or '0  '
  local seen, last, before = string.match(entry, '^(%d+) (%x*) (%x*)$')
  if not seen then error('LEASEHOLD-GUARD this key holds something else: ' .. guard) end
  return seen, last, before
end

-- Kept for as long as asked, for as long as it was to be kept before, and for as long as the value is.
local function write_guard(guard, value, seen, last, before, keep_ms)
  keep_ms = math.max(tonumber(keep_ms), redis.call('PTTL', guard), redis.call('PTTL', value))
  redis.call('SET', guard, seen .. ' ' .. last .. ' ' .. before, 'PX', string.format('%.0f', keep_ms))
end
