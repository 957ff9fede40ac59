-- Ends the lease of a token, or its waiting, and advances the queue. Returns 1 if it was a lease, else 0.
local function release_token(token)
  local kind, held_by, rest = read_record()
  if kind ~= 's' and held_by == token then
    local was_held = has_writer(kind, rest)
    -- First, because a server that is out of memory allows the writes of a script that has begun with a deletion.
    redis.call('DEL', lock)
    advance_queue()
    return was_held and 1 or 0
  end
  local was_held = kind == 's' and left_of(token, kind) and 1 or 0
  if kind == 's' then redis.call('ZREM', readers, token) end
  redis.call('ZREM', queue, token)
  redis.call('HDEL', people, token)
  if kind then advance_queue(nil, kind, rest) end
  return was_held
end
