-- Ends the lease of a token, or its waiting, and lets the next in.
local function leave(token)
  local kind, held_by, rest = read_record()
  local was_held = 0
  if kind ~= 's' and held_by == token then
    was_held = (kind == 'x' or select(3, read_rest(rest)) > now_ms) and 1 or 0
    redis.call('DEL', lock)
  else
    if kind == 's' then
      was_held = (redis.call('ZSCORE', readers, token) or 0) - now_ms > 0 and 1 or 0
      redis.call('ZREM', readers, token)
    end
    redis.call('ZREM', queue, token)
    redis.call('HDEL', people, token)
  end
  settle()
  return was_held
end
