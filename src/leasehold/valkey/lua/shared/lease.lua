-- The remaining ms of the lease of a token, given the current record; nil if it holds none.
local function left_of(token, kind, held_by, rest)
  local left_ms = 0
  if kind == 's' then
    left_ms = (redis.call('ZSCORE', readers, token) or 0) - now_ms
  elseif held_by == token then
    left_ms = kind == 'x' and redis.call('PTTL', lock) or select(3, read_rest(rest)) - now_ms
  end
  return left_ms > 0 and left_ms or nil
end

-- The fence of a token that holds a lease; nil or false if the counter was deleted.
local function fence_of(token, kind)
  if kind == 's' then return (select(5, read_entry(redis.call('HGET', people, token)))) end
  return redis.call('GET', fence)
end

-- The fence and the remaining ms of the lease of a token; nothing if it holds none.
local function read_lease(token, kind, held_by, rest)
  local left_ms = left_of(token, kind, held_by, rest)
  if not left_ms then return end
  return tonumber(fence_of(token, kind)) or restart_fence(fence, '@0'), left_ms
end

-- Sets the remaining time of the lease of a token that holds one, which also claims one that was granted from the queue.
local function set_ttl(token, kind, rest, ttl_ms)
  if kind == 'x' then
    redis.call('PEXPIRE', lock, ttl_ms)
  elseif kind == 's' then
    local _, channel, ticket, _, count, since, holder = read_entry(redis.call('HGET', people, token))
    write_reader(token, make_entry('r', channel, ticket, ttl_ms, count, since, holder), now_ms + ttl_ms)
  else
    local channel, ticket, _, public = read_rest(rest)
    write_hold('w', token, channel, ticket, now_ms + ttl_ms, public)
  end
end
