-- The remaining ms of the lease that a token holds under this fence. If it holds none: nil, and why the lease has ended,
-- -1 when taken and 0 when expired. With another fence the token had lost the lock before, and a request for it that was
-- delivered late has got it anew. A counter that was deleted says nothing.
local function left_under(own_fence, token, kind, held_by, rest)
  local left_ms = left_of(token, kind, held_by, rest)
  local count = left_ms and fence_of(token, kind)
  if left_ms and (not count or count == own_fence) then return left_ms end
  local taken_by = tonumber(redis.call('GET', taken)) or 0
  return nil, taken_by > tonumber(own_fence) and -1 or 0
end
