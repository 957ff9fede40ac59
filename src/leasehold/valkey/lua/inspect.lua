-- Reads the holders of the lock and the number of waiters. Tokens and channels are not returned.
-- KEYS: lock, fence, queue, readers, people
-- ARGV:
-- Returns: {fence, waiters, kind, {fence, left_ms, public}, …}; the first fence is the last one granted, or ''
local lock, fence, queue, readers, people = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

-- Uses: clock, fence, record, waiters, readers, lease, holders
local waiters = 0
for _, token in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
  local _, channel, _, _, deadline_ms = read_entry(redis.call('HGET', people, token))
  if is_waiting(channel, deadline_ms) then waiters = waiters + 1 end
end
local held, kind = list_holders()
local reply = {redis.call('GET', fence) or '', waiters, kind or ''}
for _, hold in ipairs(held) do
  reply[#reply + 1] = {hold.fence, hold.left_ms, hold.public}
end
return reply
