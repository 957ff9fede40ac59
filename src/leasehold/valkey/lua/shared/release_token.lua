-- Ends the lease of a token, or its waiting, and lets the next in. Says whether it was a lease.
local function leave(token)
  local kind, held_by, rest = read_record()
  if kind ~= 's' and held_by == token then
    local was_held = is_written(kind, rest)
    -- First, because a server that is out of memory lets a script write that has begun by giving back.
    redis.call('DEL', lock)
    settle()
    return was_held and 1 or 0
  end
  local was_held = kind == 's' and left_of(token, kind) and 1 or 0
  if kind == 's' then redis.call('ZREM', readers, token) end
  redis.call('ZREM', queue, token)
  redis.call('HDEL', people, token)
  if kind then settle(nil, kind, rest) end
  return was_held
end
