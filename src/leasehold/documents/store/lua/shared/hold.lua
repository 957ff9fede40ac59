-- The record at the lock's own key, as JSON: version, fence (text, because cjson keeps 14 digits), step, user, name,
-- tab, since_ms, until_ms, and optionally: idle_ms, the last activity; ask, the call that it was granted to; unclaimed
-- and saved, of a hold that was handed over; taking, the mark of a taker: user, name, tab, ask, and until_ms, when it
-- may take. An unknown version is an error: better refused than misread.
local function read_hold()
  local text = redis.call('GET', lock)
  if not text then return end
  local is_json, hold = pcall(cjson.decode, text)
  if not is_json or type(hold) ~= 'table' or hold.version ~= 1 then error('LEASEHOLD-VERSION') end
  return hold, text
end

-- A mark counts for a second longer than the holder may save, so that no other editor overtakes the taker.
local function marked_until(hold)
  return hold.taking and hold.taking.until_ms + 1000 or 0
end

-- Stores the hold and returns its text. Its end is stored in a key of its own, to be read after the hold has expired.
local function write_hold(hold)
  local text = cjson.encode(hold)
  redis.call('SET', lock, text, 'PXAT', whole(math.max(hold.until_ms, marked_until(hold))))
  redis.call('SET', held_until, whole(hold.until_ms), 'EX', 7776000)
  return text
end

-- Extends a hold for its owner. An earlier call can no longer withdraw it.
local function extend(hold, ask, ttl_ms, idle_ms)
  -- First, because a server that is out of memory lets a script write that has begun with something small.
  redis.call('PEXPIRE', lock, ttl_ms)
  hold.until_ms, hold.idle_ms, hold.unclaimed = now_ms + ttl_ms, idle_ms, nil
  if hold.ask ~= ask then hold.ask = nil end
  return write_hold(hold)
end
