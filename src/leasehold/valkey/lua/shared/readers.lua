-- The latest end of a reader's lease; nil if there are no readers.
local function last_reader_until()
  local last = redis.call('ZREVRANGE', readers, 0, 0, 'WITHSCORES')
  return last[2] and tonumber(last[2])
end

-- Writes the lease of a reader, which ends at until_ms.
local function write_reader(token, entry, until_ms)
  redis.call('HSET', people, token, entry)
  redis.call('ZADD', readers, whole(until_ms), token)
  redis.call('EXPIRE', people, 172800)
  redis.call('EXPIRE', readers, 172800)
  write_lock('2s', last_reader_until() - now_ms)
end

-- Removes the readers whose leases have ended; returns true if any are left. heard is the channel of the client that
-- is being served, if any.
local function drop_ended_readers(heard)
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', readers, '-inf', whole(now_ms))) do
    local kind, channel, _, ttl_ms = read_entry(redis.call('HGET', people, token))
    if kind == 'g' then forget_client(channel, tonumber(ttl_ms), heard) end
    redis.call('ZREM', readers, token)
    redis.call('HDEL', people, token)
  end
  return redis.call('EXISTS', readers) == 1
end
