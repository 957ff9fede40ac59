-- Waiters and readers. queue: waiting tokens in the order of their arrival. readers: tokens by the end of their
-- leases. people: a hash with the entry of each token, and for each client, by its channel, until when it counts as
-- alive. An entry is kind, channel (16), then 'ticket ttl_ms a b holder'. Kinds: x and s wait, a is their
-- deadline_ms and b their floor; g and r read, a is their fence and b their since_ms; g is not claimed yet.
-- These keys expire two days after their last use; only the times in the entries decide.
local function make_entry(kind, channel, ticket, ttl_ms, a, b, holder)
  return kind .. channel .. ticket .. ' ' .. ttl_ms .. ' ' .. a .. ' ' .. b .. ' ' .. holder
end

local function read_entry(entry)
  if not entry then return end
  local ticket, ttl_ms, a, b, holder = string.match(entry, '^(%d+) (%d+) (%S+) (%S+) (.*)$', 18)
  return string.sub(entry, 1, 1), string.sub(entry, 2, 17), ticket, ttl_ms, a, b, holder
end

-- True if a waiter's client is alive and its deadline is not over.
local function is_waiting(channel, deadline_ms)
  return channel and tonumber(deadline_ms) >= now_ms and (tonumber(redis.call('HGET', people, channel)) or 0) >= now_ms
end

-- A client that has not claimed a grant is most likely gone, with all its waiters: they are passed over until it is
-- heard of again, as the client ``heard`` is right now. A lease that is shorter than the window needs no claim.
local function forget_client(channel, granted_ms, heard)
  if granted_ms >= 2000 and channel ~= heard then redis.call('HDEL', people, channel) end
end

-- Removes some of the clients that are gone: more than one for each that is added, so that they stay fewer than those
-- that are alive.
local function drop_gone_clients()
  -- A user who may not run HRANDFIELD gets an error, in which nothing is found: only the clients that are gone stay.
  local found = redis.pcall('HRANDFIELD', people, -3, 'WITHVALUES')
  for number = 1, #found, 2 do
    local field = found[number]
    if #field == 16 and tonumber(found[number + 1]) < now_ms then redis.call('HDEL', people, field) end
  end
end

-- The lock's own key outlives the lease by more than the longest pause between two polls of a client: while the key
-- exists, no newcomer passes the queue.
local function write_lock(record, left_ms)
  redis.call('SET', lock, record, 'PX', whole(left_ms + 300000))
end

local function write_hold(kind, token, channel, ticket, until_ms, public)
  local rest = channel .. ticket .. ' ' .. whole(until_ms) .. ' ' .. public
  write_lock('2' .. kind .. token .. rest, until_ms - now_ms)
end

-- Replaces a plain record, because a token waits from now on. Returns the new record.
local function guard_queue(token, rest)
  local channel, ticket, _, public = read_rest(rest)
  write_hold('w', token, channel, ticket, now_ms + redis.call('PTTL', lock), public)
  return read_record()
end
