-- Ends the lease of a token, or its waiting, and lets the next in.
local function leave(token)
  local was_held = holding(token) and 1 or 0
  local _, held_by = read_record()
  if held_by == token then redis.call('DEL', lock) end
  redis.call('ZREM', readers, token)
  redis.call('ZREM', queue, token)
  redis.call('HDEL', people, token)
  settle()
  return was_held
end
