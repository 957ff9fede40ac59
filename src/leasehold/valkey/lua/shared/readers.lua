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

-- Removes the readers whose leases have ended; returns true if any are left.
local function drop_ended_readers()
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', readers, '-inf', whole(now_ms))) do
    redis.call('ZREM', readers, token)
    redis.call('HDEL', people, token)
  end
  return redis.call('EXISTS', readers) == 1
end
