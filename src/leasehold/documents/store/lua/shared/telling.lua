-- The state as JSON: the hold in force as it is written, or else how the last one ended. Where that is not known, the
-- counter stands for it, and after that the clock, which is ahead of every hold that was forgotten: whoever watched
-- one learns that it is over.
local function describe(text)
  local opening = '{"now_us":' .. whole(now_us)
  if text then return opening .. ',"hold":' .. text .. '}' end
  local last = redis.call('LINDEX', history, 0)
  if last then return opening .. ',"last":' .. last .. '}' end
  return opening .. ',"fence":"' .. (redis.call('GET', fence) or whole(now_us)) .. '"}'
end

-- Tells every process what has happened, through whom, and the state that it led to.
local function tell(kind, by, saved, state)
  local person = by and cjson.encode({user = by.user, name = by.name}) or 'null'
  local answer = saved == nil and 'null' or cjson.encode(saved)
  local event = '{"kind":"' .. kind .. '","key":' .. cjson.encode(lock) .. ',"by":' .. person
  -- A hint, so it must not fail what it tells of: this user may not be allowed to publish.
  redis.pcall('PUBLISH', 'doc_lock:events', event .. ',"saved":' .. answer .. ',"state":' .. state .. '}')
end
