-- Who waits, and who reads. queue: tokens in the order of their coming. readers: tokens by the end of their leases.
-- people: what is known of each token, and until when each client (by its channel)
-- counts as alive. An entry is kind, channel (16), then 'ticket ttl_ms a b holder'. Kinds: x and s wait, a is their
-- deadline_ms and b their floor; g and r read, a is their fence and b their since_ms; g is not claimed yet.
-- These keys live for two days after their last use; what counts is the times that are written in them.
local function make_entry(kind, channel, ticket, ttl_ms, a, b, holder)
  return kind .. channel .. ticket .. ' ' .. ttl_ms .. ' ' .. a .. ' ' .. b .. ' ' .. holder
end

local function read_entry(entry)
  if not entry then return end
  local ticket, ttl_ms, a, b, holder = string.match(entry, '^(%d+) (%d+) (%S+) (%S+) (.*)$', 18)
  return string.sub(entry, 1, 1), string.sub(entry, 2, 17), ticket, ttl_ms, a, b, holder
end

-- Whether a waiter's client is alive, and the waiter's time not over.
local function is_waiting(channel, deadline_ms)
  return channel and tonumber(deadline_ms) >= now_ms and (tonumber(redis.call('HGET', people, channel)) or 0) >= now_ms
end

-- The lock's own key outlives the lease by longer than any client waits without looking in: while it is there,
-- nobody passes the queue.
local function write_lock(record, left_ms)
  redis.call('SET', lock, record, 'PX', whole(left_ms + 300000))
end

local function write_hold(kind, token, channel, ticket, until_ms, public)
  local rest = channel .. ticket .. ' ' .. whole(until_ms) .. ' ' .. public
  write_lock('2' .. kind .. token .. rest, until_ms - now_ms)
end

-- From now on somebody waits behind a plain record. Gives the record as it is then.
local function guard_queue(token, rest)
  local channel, ticket, _, public = read_rest(rest)
  write_hold('w', token, channel, ticket, now_ms + redis.call('PTTL', lock), public)
  return read_record()
end
