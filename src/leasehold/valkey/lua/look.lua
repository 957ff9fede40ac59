-- Keeps the waiters of one client alive, advances the queue, and returns the place of each of them.
-- KEYS: lock, fence, queue, readers, people
-- ARGV: tokens, channel, live_ms
-- Returns: {now_ms, left_ms, place, …}; left_ms of the current hold; a place is its number in the queue, 0 for a
--   token that does not wait, or {fence, left_ms} for one that has the lock
local lock, fence, queue, readers, people = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local tokens, channel, live_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])

-- Uses: clock, fence, record, waiters, readers, advance_queue, lease
local kind, held_by, rest = read_record()
if redis.call('EXPIRE', queue, 172800) == 1 then
  redis.call('HSET', people, channel, whole(now_ms + live_ms))
  redis.call('EXPIRE', people, 172800)
  -- The record was deleted by hand, and a newcomer got the lock: from now on the queue is respected again.
  if kind == 'x' then kind, held_by, rest = guard_queue(held_by, rest) end
  advance_queue(nil, kind, rest, channel)
  kind, held_by, rest = read_record()
end
local left_ms = 0
if kind == 's' then
  left_ms = (last_reader_until() or now_ms) - now_ms
elseif kind then
  left_ms = left_of(held_by, kind, held_by, rest) or 0
end
local reply = {now_ms, left_ms}
for start = 1, #tokens, 32 do
  local token = string.sub(tokens, start, start + 31)
  local rank = redis.call('ZRANK', queue, token)
  if rank then
    reply[#reply + 1] = rank + 1
  else
    local count, token_left_ms = read_lease(token, kind, held_by, rest)
    reply[#reply + 1] = count and {count, token_left_ms} or 0
  end
end
return reply
