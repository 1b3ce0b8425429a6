// Forgets an address in what was pushed to endpoints, in what they answered, and in what the endpoints are called.
import { redacting } from '../store/erasing.ts'

export const forgetInWebhooks = redacting('webhooks', ['name', 'url', 'disabled_reason'])
export const forgetInPushed = redacting('outbound_webhooks', ['payload', 'response_body', 'reason'])
export const forgetInAttempts = redacting(
  'webhook_attempts',
  ['response_body', 'reason'],
  'delivery_key in (select key from outbound_webhooks where user_key = ?)',
)
