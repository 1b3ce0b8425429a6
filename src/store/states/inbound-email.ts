// A received mail's status (specification "Inbound email", D47). It is judged once, when the mail is read, and does not
// change:
//
//   received         read and shown
//   virus_detected   the scanner found something: body and attachments are withheld
//   oversized        larger than inbound.max_message_bytes: refused with 552, envelope and header are kept
//   parse_rejected   beyond the limits of MIME, or unreadable: the raw message is kept

export const INBOUND_STATUSES = ['received', 'virus_detected', 'oversized', 'parse_rejected'] as const
export type InboundStatus = (typeof INBOUND_STATUSES)[number]
