-- Turns a reader's lease into a writer's as soon as there is no other reader.
-- Until then the writer's token stands first in the queue, so that no new reader gets in, and the client repeats the call.
-- KEYS: lock, fence, queue, readers, people, upgrade
-- ARGV: record, reader, ttl_ms, floor, wait_ms, live_ms, not_after_ms
-- Returns: {fence, ttl_ms, ''} when done, also when repeated; {0, left_ms, public} while another reads;
--   {-1, left_ms, public} when another reader waits for the same; {-2, 0, ''} when the reader's lease has ended;
--   the error TOOLATE when it came too late
local lock, fence, queue, readers, people, upgrade = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local record, reader, ttl_ms, floor, wait_ms, live_ms, not_after_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

-- Uses: clock, not_after, fence, record, waiters, readers, advance_queue, lease, release_token
local refusal = refuse_late(not_after_ms)
if refusal then return refusal end
local token = string.sub(record, 3, 34)
local kind, held_by, rest = read_record()
local count, left_ms = read_lease(token, kind, held_by, rest)
-- Handed over from the queue (g) is not the same: then the reader's lease ended first, and another may have had the lock.
if count and kind ~= 'g' then
  redis.call('EXPIRE', fence, 172800)
  return {count, left_ms, ''}
end
if kind ~= 's' or not left_of(reader, kind) then
  release_token(token)
  return {-2, 0, ''}
end

local mark = redis.call('GET', upgrade)
local first_token = mark and string.sub(mark, 1, 32)
if first_token and first_token ~= token and redis.call('ZSCORE', queue, first_token) then
  return {-1, last_reader_until() - now_ms, string.sub(mark, 33)}
end
drop_ended_readers()
local channel, ticket, _, public = read_rest(string.sub(record, 35))
local holder = string.sub(public, string.find(public, ' ', 1, true) + 1)
local last = redis.call('ZREVRANGE', readers, 0, 1, 'WITHSCORES')
if #last == 2 then
  count = new_fence(fence, floor)
  redis.call('ZREM', readers, reader)
  redis.call('HDEL', people, reader)
  redis.call('DEL', upgrade)
  grant(count, token, token, 'x', channel, ticket, ttl_ms, holder)
  return {count, tonumber(ttl_ms), ''}
end
if wait_ms == '0' then
  release_token(token)
else
  local first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')[2] or 1
  redis.call('ZADD', queue, 'NX', whole(first - 1), token)
  local entry = make_entry('x', channel, ticket, ttl_ms, whole(now_ms + wait_ms), floor, holder)
  redis.call('HSET', people, token, entry, channel, whole(now_ms + live_ms))
  redis.call('EXPIRE', queue, 172800)
  redis.call('SET', upgrade, token .. public, 'PX', live_ms)
end
local other = last[1] == reader and 3 or 1
local _, _, _, _, _, since, other_holder = read_entry(redis.call('HGET', people, last[other]))
return {0, last[other + 1] - now_ms, since .. ' ' .. other_holder}
