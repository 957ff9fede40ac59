-- The current hold and its text, after all expiries: an expired mark is removed, and an expired hold is handed over to
-- the taker that marked it, or ends.
local function apply_expiry()
  local hold, text = read_hold()
  if hold and hold.until_ms > now_ms then
    if hold.taking and marked_until(hold) <= now_ms then
      hold.taking, hold.step = nil, hold.step + 1
      text = cjson.encode(hold)
    end
    return hold, text
  end
  if hold and marked_until(hold) > now_ms then
    end_hold(hold, 'expired', hold.until_ms)
    return hand_over(hold, false)
  end
  local ended_ms = tonumber(redis.call('GET', held_until))
  if not ended_ms then return end
  local entry = redis.call('LINDEX', history, 0)
  end_hold(entry and cjson.decode(entry) or {}, 'expired', ended_ms)
  publish('document_lock_expired', nil, nil, state_json())
end
