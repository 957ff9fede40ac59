-- Puts a token at the end of the queue, or leaves it in its place, and marks its client as alive.
-- Returns the length of the queue and the token's place. kind is that of the current record.
local function join_queue(kind, record, mode, token, ttl_ms, floor, wait_ms, live_ms)
  local channel, ticket, _, public = read_rest(string.sub(record, 35))
  local holder = string.sub(public, string.find(public, ' ', 1, true) + 1)
  local entry = make_entry(mode, channel, ticket, ttl_ms, whole(now_ms + wait_ms), floor, holder)
  local last = redis.call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')[2] or 0
  local is_new = redis.call('ZADD', queue, 'NX', whole(last + 1), token) == 1
  local added = redis.call('HSET', people, token, entry, channel, whole(now_ms + live_ms))
  if kind and added == 2 then drop_gone_clients() end
  local waiters = redis.call('ZCARD', queue)
  if waiters == 1 then
    redis.call('EXPIRE', queue, 172800)
    redis.call('EXPIRE', people, 172800)
  end
  return waiters, is_new and waiters or redis.call('ZRANK', queue, token) + 1
end
