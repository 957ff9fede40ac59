-- The state as JSON: the current hold as it is stored, or else how the last one ended. Where that is not known, the
-- counter stands for it. Without a counter no hold is known: the document was never held, or the store has lost its data.
local function state_json(text)
  local opening = '{"now_us":' .. whole(now_us)
  if text then return opening .. ',"hold":' .. text .. '}' end
  local last = redis.call('LINDEX', history, 0)
  if last then return opening .. ',"last":' .. last .. '}' end
  local stored = redis.call('GET', fence)
  return opening .. (stored and ',"fence":"' .. stored .. '"}' or '}')
end

-- Publishes an event to every process, with its person and the state that it led to.
local function publish(kind, by, saved, state)
  local person = by and cjson.encode({user = by.user, name = by.name}) or 'null'
  local answer = saved == nil and 'null' or cjson.encode(saved)
  local event = '{"kind":"' .. kind .. '","key":' .. cjson.encode(lock) .. ',"by":' .. person
  -- A hint, so it must not fail the change: this user of the store may not be allowed to publish.
  redis.pcall('PUBLISH', 'doc_lock:events', event .. ',"saved":' .. answer .. ',"state":' .. state .. '}')
end
