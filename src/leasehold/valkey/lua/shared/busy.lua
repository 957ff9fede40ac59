-- Who has the lock, for those who do not: {0, left_ms, public, kind, now_ms, waiters, position}.
local function describe_busy(token)
  local kind, _, rest = read_record()
  local left_ms, public = 0, ''
  if kind == 's' then
    left_ms = (last_reader_until() or now_ms) - now_ms
    local first = redis.call('ZRANGE', readers, 0, 0)[1]
    local _, _, _, _, _, since, holder = read_entry(first)
    public = since .. ' ' .. holder
  elseif kind then
    local _, _, until_ms, seen = read_rest(rest)
    left_ms = kind == 'x' and redis.call('PTTL', lock) or until_ms - now_ms
    public = seen
  end
  local rank = redis.call('ZRANK', queue, token)
  return {0, left_ms, public, kind or '', now_ms, redis.call('ZCARD', queue), rank and rank + 1 or 0}
end
