-- The reply while the lock is busy: {0, left_ms, public, kind, now_ms, waiters, position}.
local function describe_busy(kind, rest, waiters, position)
  local left_ms, public = 0, ''
  if kind == 's' then
    -- Of several readers the one whose lease ends last.
    local last = redis.call('ZREVRANGE', readers, 0, 0, 'WITHSCORES')
    left_ms = (last[2] or now_ms) - now_ms
    local _, _, _, _, _, since, holder = read_entry(last[1] and redis.call('HGET', people, last[1]))
    public = since and since .. ' ' .. holder or ''
  elseif kind then
    local _, _, until_ms, seen = read_rest(rest)
    left_ms = kind == 'x' and redis.call('PTTL', lock) or until_ms - now_ms
    public = seen
  end
  return {0, left_ms, public, kind or '', now_ms, waiters, position}
end
