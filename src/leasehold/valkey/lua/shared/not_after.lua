-- The reply to a request that comes after its not-after on the server's clock, with that clock; nil in time. Such a
-- request was delivered by something in between when its client had given it up, so it must change nothing.
local function refuse_late(not_after_ms)
  if now_ms > tonumber(not_after_ms) then return redis.error_reply('TOOLATE ' .. whole(now_ms)) end
end
