-- The next fence, by the clock every time: whoever grants here may have connected before the server's data was lost.
local function mint(floor)
  local count = math.max(now_us, tonumber((string.gsub(floor, '^@', ''))), (redis.call('GET', fence) or 0) + 1)
  redis.call('SET', fence, whole(count), 'EX', 172800)
  return count
end

-- A grant to somebody who waits starts with a short lease, the window within which it must be claimed, so that a
-- waiter who is gone costs no more than that. Whoever asks at this moment needs no claim.
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
    read_until(token, entry, now_ms + left_ms)
  end
  if not is_asker then
    -- A hint, so it must not fail what it tells of: this user may not be allowed to publish.
    local words = 'granted ' .. ticket .. ' ' .. whole(count) .. ' ' .. since .. ' ' .. whole(left_ms)
    redis.pcall('PUBLISH', 'leasehold:' .. channel, words)
  end
end

-- Ends what has run out, given the record as it is, and grants what can be granted now, in the order of the queue: a
-- writer if nobody holds the lock, readers up to the next writer. Whoever is not alive any more, or past its
-- deadline, is dropped. Says whether the asker was granted anything.
local function settle(asker, kind, rest)
  if is_written(kind, rest) then return false end
  local is_read = kind == 's' and end_readers()
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
      grant(mint(floor), token, asker, wants, channel, ticket, ttl_ms, holder)
      is_granted = is_granted or token == asker
      if wants == 'x' then return is_granted end
      is_read = true
    end
  end
end
