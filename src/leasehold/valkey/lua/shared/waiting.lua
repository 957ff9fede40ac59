-- Who waits, and who reads. queue: tokens in the order of their coming. readers: tokens by the end of their
-- leases. people: what is known of each token, and until when each client (by its channel) counts as alive.
-- An entry is kind, channel (16), then 'ticket ttl_ms a b holder'. Kinds: x and s wait, a is their deadline_ms and
-- b their floor; g and r read, a is their fence and b their since_ms; g is not claimed yet.
local now_us = now_us()
local now_ms = math.floor(now_us / 1000)

local function whole(number) return string.format('%.0f', number) end

local function write_entry(token, kind, channel, ticket, ttl_ms, a, b, holder)
  local entry = kind .. channel .. ticket .. ' ' .. ttl_ms .. ' ' .. a .. ' ' .. b .. ' ' .. holder
  redis.call('HSET', people, token, entry)
end

local function read_entry(token)
  local entry = redis.call('HGET', people, token)
  if not entry then return end
  local ticket, ttl_ms, a, b, holder = string.match(entry, '^(%d+) (%d+) (%S+) (%S+) (.*)$', 18)
  return string.sub(entry, 1, 1), string.sub(entry, 2, 17), ticket, ttl_ms, a, b, holder
end

-- What has waiters or readers lives as long as any of them may.
local function keep_people(left_ms)
  if redis.call('PTTL', people) < left_ms then redis.call('PEXPIRE', people, whole(left_ms)) end
end

local function keep_queue(live_ms)
  if redis.call('PTTL', queue) >= live_ms then return end
  redis.call('PEXPIRE', queue, whole(live_ms))
  keep_people(live_ms)
end

-- The lock's own key never goes before the queue does: while it is there, nobody passes.
local function write_lock(record, left_ms)
  redis.call('SET', lock, record, 'PX', whole(math.max(left_ms, redis.call('PTTL', queue), 1)))
end

local function write_hold(kind, token, channel, ticket, until_ms, public)
  local rest = channel .. ticket .. ' ' .. whole(until_ms) .. ' ' .. public
  write_lock('2' .. kind .. token .. rest, until_ms - now_ms)
end

-- While somebody waits, the lock's own key must stay, whatever becomes of the lease.
local function guard_queue()
  local kind, token, rest = read_record()
  local left_ms = redis.call('PTTL', lock)
  if kind == 'x' then
    local channel, ticket, _, public = read_rest(rest)
    write_hold('w', token, channel, ticket, now_ms + left_ms, public)
  else
    local queue_ms = redis.call('PTTL', queue)
    if left_ms < queue_ms then redis.call('PEXPIRE', lock, queue_ms) end
  end
end
