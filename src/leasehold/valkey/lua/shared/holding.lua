-- What is left of the lease of a token; nothing if it holds none.
local function left_of(token)
  local kind, held_by, rest = read_record()
  local left_ms = 0
  if kind == 's' then
    left_ms = (redis.call('ZSCORE', readers, token) or 0) - now_ms
  elseif held_by == token then
    left_ms = kind == 'x' and redis.call('PTTL', lock) or select(3, read_rest(rest)) - now_ms
  end
  return left_ms > 0 and left_ms or nil
end

-- The fence of a token that holds a lease, and what is left of it.
local function holding(token)
  local left_ms = left_of(token)
  if not left_ms then return end
  local kind = read_record()
  local count = kind == 's' and select(5, read_entry(token)) or redis.call('GET', fence)
  return tonumber(count) or restart_fence(fence, '@0'), left_ms
end

-- Extends the lease of a token that holds one, and so claims one that was handed over.
local function extend(token, ttl_ms)
  local kind, _, rest = read_record()
  if kind == 'x' then
    redis.call('PEXPIRE', lock, ttl_ms)
  elseif kind == 's' then
    local _, channel, ticket, _, count, since, holder = read_entry(token)
    write_entry(token, 'r', channel, ticket, ttl_ms, count, since, holder)
    read_until(token, now_ms + ttl_ms)
  else
    local channel, ticket, _, public = read_rest(rest)
    write_hold('w', token, channel, ticket, now_ms + ttl_ms, public)
  end
end

-- Whether the lease of a token was handed over and is not claimed yet.
local function is_unclaimed(token)
  local kind = read_record()
  return kind == 'g' or kind == 's' and read_entry(token) == 'g'
end
