-- The current holders of the lock: a writer, or readers by the end of their leases, or none.
local function list_holders()
  local kind, token, rest = read_record()
  local tokens = {token}
  if kind == 's' then tokens = redis.call('ZRANGE', readers, 0, -1) end
  local found = {}
  for _, held_by in ipairs(tokens) do
    local left_ms = left_of(held_by, kind, held_by, rest)
    if left_ms then
      local hold = {token = held_by, left_ms = left_ms}
      if kind == 's' then
        local _, channel, ticket, _, count, since, holder = read_entry(redis.call('HGET', people, held_by))
        hold.channel, hold.ticket, hold.fence, hold.public = channel, ticket, tonumber(count), since .. ' ' .. holder
      else
        hold.channel, hold.ticket, _, hold.public = read_rest(rest)
        hold.fence = tonumber(redis.call('GET', fence)) or 0
      end
      found[#found + 1] = hold
    end
  end
  return found, kind
end
