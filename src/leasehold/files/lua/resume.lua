-- Moves a lease to a new token if one of the old ones has it, and extends it.
-- The fence stays. The old token is invalid from then on, and the client that has it is notified.
-- KEYS: lock, fence, queue, readers, people
-- ARGV: token, old_tokens, channel, ticket, ttl_ms
-- Returns: {fence, ttl_ms, kind} when moved, also when repeated; {0, 0, ''} when none of them has a lease; kind is s
--   for a reader
local lock, fence, queue, readers, people = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, old_tokens, channel, ticket, ttl_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- Uses: clock, fence, record, waiters, readers, advance_queue, lease, release_token
local kind, held_by, rest = read_record()
local all = token .. old_tokens
for start = 1, #all, 32 do
  local old = string.sub(all, start, start + 31)
  local count, left_ms = read_lease(old, kind, held_by, rest)
  if count then
    redis.call('EXPIRE', fence, 172800)
    -- A repeated request may be late, and the lease may have been renewed for longer since.
    local until_ms = now_ms + math.max(tonumber(ttl_ms), old == token and left_ms or 0)
    local old_channel, old_ticket, _, public = read_rest(rest)
    if kind == 's' then
      local _, reader_channel, reader_ticket, _, _, since, holder = read_entry(redis.call('HGET', people, old))
      old_channel, old_ticket = reader_channel, reader_ticket
      redis.call('ZREM', readers, old)
      redis.call('HDEL', people, old)
      write_reader(token, make_entry('r', channel, ticket, ttl_ms, whole(count), since, holder), until_ms)
    else
      write_hold('w', token, channel, ticket, until_ms, public)
    end
    if old ~= token then redis.pcall('PUBLISH', 'leasehold:' .. old_channel, 'taken ' .. old_ticket) end
    return {count, tonumber(ttl_ms), kind}
  end
  -- It may still stand in the queue, where no client would keep it alive or remove it.
  release_token(old)
  kind, held_by, rest = read_record()
end
return {0, 0, ''}
