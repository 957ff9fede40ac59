-- Grants the lock. A waiter first gets a short lease, the window within which it must claim the grant, so that a
-- waiter that is gone delays the others no longer. The caller itself needs no claim.
local function grant(count, token, asker, kind, channel, ticket, ttl_ms, holder)
  local is_asker = token == asker
  local left_ms = is_asker and tonumber(ttl_ms) or math.min(tonumber(ttl_ms), 2000)
  local since = whole(now_ms)
  redis.call('ZREM', queue, token)
  if kind == 'x' then
    redis.call('HDEL', people, token)
    write_hold(is_asker and 'w' or 'g', token, channel, ticket, now_ms + left_ms, since .. ' ' .. holder)
  else
    local entry = make_entry(is_asker and 'r' or 'g', channel, ticket, ttl_ms, whole(count), since, holder)
    write_reader(token, entry, now_ms + left_ms)
  end
  if not is_asker then
    -- Only a hint, so an error must not undo the grant: this user may lack the permission to publish.
    local notification = 'granted ' .. ticket .. ' ' .. whole(count) .. ' ' .. since .. ' ' .. whole(left_ms)
    redis.pcall('PUBLISH', 'leasehold:' .. channel, notification)
  end
end

-- Ends leases that have expired, given the current record, and grants in the order of the queue: a writer if the lock is
-- free, readers up to the next writer. Drops waiters that are past their deadline or whose client is gone. Returns true
-- if the asker was granted the lock. heard is the channel of the client that is being served, if any.
local function advance_queue(asker, kind, rest, heard)
  if has_writer(kind, rest) then return false end
  if kind == 'g' then
    local channel, _, until_ms, public = read_rest(rest)
    forget_client(channel, until_ms - string.match(public, '^%d+'), heard)
  end
  local is_read = kind == 's' and drop_ended_readers(heard)
  local is_granted = false
  while true do
    local token = redis.call('ZRANGE', queue, 0, 0)[1]
    if not token then
      if not is_read then redis.call('DEL', lock, people) end
      return is_granted
    end
    local wants, channel, ticket, ttl_ms, deadline_ms, floor, holder = read_entry(redis.call('HGET', people, token))
    if not is_waiting(channel, deadline_ms) then
      redis.call('ZREM', queue, token)
      redis.call('HDEL', people, token)
    elseif wants == 'x' and is_read then
      return is_granted
    else
      grant(new_fence(fence, floor), token, asker, wants, channel, ticket, ttl_ms, holder)
      is_granted = is_granted or token == asker
      if wants == 'x' then return is_granted end
      is_read = true
    end
  end
end
