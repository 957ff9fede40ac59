-- The history: one JSON text for each hold, newest first. The first is the current hold, if there is one.
local function begin_entry(hold)
  local entry = {fence = hold.fence, user = hold.user, name = hold.name, since_ms = hold.since_ms}
  if redis.call('LPUSH', history, cjson.encode(entry)) > 200 then redis.call('LTRIM', history, 0, 199) end
  redis.call('EXPIRE', history, 7776000)
end

-- Ends a hold and stores the reason, and the person who ended it if there is one.
local function end_hold(hold, reason, ended_ms, by)
  -- First, because a server that is out of memory lets a script write that has begun by deleting.
  redis.call('DEL', lock, held_until)
  local entry = {fence = hold.fence, user = hold.user, name = hold.name, since_ms = hold.since_ms}
  entry.ended_ms, entry.reason = ended_ms, reason
  entry.by = by and {user = by.user, name = by.name}
  -- Fails if the history was deleted by hand.
  redis.pcall('LSET', history, 0, cjson.encode(entry))
end
