package analysis

import (
	"fmt"
	"strings"
)

// Rule is a requirement of an RFC that a [Verdict] can name.
type Rule struct {
	ID      string `json:"id"`
	Level   string `json:"level"`
	RFC     int    `json:"rfc"`
	Section string `json:"section"`
	Text    string `json:"text"`
}

// URL is where the RFC's section can be read.
func (r *Rule) URL() string { return sectionURL(r.RFC, r.Section) }

func sectionURL(rfc int, section string) string {
	return fmt.Sprintf("https://www.rfc-editor.org/rfc/rfc%d#section-%s", rfc, section)
}

// Rules lists all rules that verdicts can name, in the order of the RFCs.
func Rules() []Rule {
	out := make([]Rule, len(rules))
	for i, r := range rules {
		out[i] = ruleOf(r.id)
	}
	return out
}

// rfcs are those of the layers in a rule's number.
var rfcs = map[string]int{"MPA": 5044, "MPA2": 6581, "DDP": 5041, "RDMAP": 5040, "EXT": 7306}

func ruleOf(id string) Rule {
	out := Rule{ID: id}
	if p := strings.Split(id, "-"); len(p) == 3 {
		out.RFC, out.Section = rfcs[p[0]], p[1]
	}
	for i := range rules {
		if rules[i].id == id {
			out.Level, out.Text = rules[i].level, rules[i].text
		}
	}
	return out
}

// rules are those of the project's list that a capture can show to be broken.
var rules = [...]struct{ id, level, text string }{
	{"MPA-3-05", "MUST NOT", "A ULPDU above 64768 octets is never posted to MPA"},
	{
		"MPA-3-06", "MAY",
		"ULPDUs of 1..64768 may be posted, but MPA may refuse those above the current MULPDU (so a zero-octet ULPDU " +
			"is outside the allowed range)",
	},
	{"MPA-4.1-03", "MUST", "PAD octets are zero on transmit"},
	{"MPA-4.2-01", "MUST", "Marker layout: 16 reserved bits then 16-bit big-endian FPDUPTR"},
	{"MPA-4.2-02", "MUST", "Marker reserved bits: zero on transmit, ignored on receive except in the CRC"},
	{"MPA-4.2-04", "MUST", "The two low bits of FPDUPTR are zero on transmit"},
	{"MPA-4.3-04", "MUST", "With markers on, insert one every 512 octets of TCP sequence space"},
	{
		"MPA-4.3-05", "MUST",
		"FPDUPTR holds the distance back to the start of the FPDU that contains the marker, unless the marker lies " +
			"between FPDUs",
	},
	{
		"MPA-4.3-07", "MUST",
		"A marker exactly between two FPDUs has FPDUPTR 0, is followed at once by ULPDU_Length, belongs to the " +
			"following FPDU and is in that FPDU's CRC",
	},
	{
		"MPA-4.3-08", "MUST",
		"The first marker comes immediately before the first FPDU of Full Operation (FPDUPTR 0); startup frames do " +
			"not count in the 512 phase",
	},
	{"MPA-4.4-15", "MUST", "A CRC mismatch makes the FPDU invalid (handled per section 8)"},
	{"MPA-7.1.1-01", "MUST", "Request key is 'MPA ID Req Frame' (4d504120494420526571204672616d65)"},
	{"MPA-7.1.1-03", "MUST", "Reply key is 'MPA ID Rep Frame' (4d504120494420526570204672616d65)"},
	{
		"MPA-7.1.1-06", "MUST",
		"M in the Request rules what the Responder sends, M in the Reply rules what the Initiator sends: insert " +
			"markers exactly when the received M is 1",
	},
	{"MPA-7.1.1-07", "MUST NOT", "No markers are added when the received M is 0"},
	{"MPA-7.1.1-11", "DEF", "R is zero in a Request and not checked there"},
	{"MPA-7.1.1-13", "MUST", "Res bits: zero on send, not checked on receive"},
	{"MPA-7.1.1-14", "MUST", "Sender of this revision sets Rev=1"},
	{"MPA-7.1.1-15", "MUST", "Receiver checks Rev; if it cannot interoperate: close and report"},
	{"MPA-7.1.1-18", "MUST", "PD_Length above 512 or not matching: close and report"},
	{"MPA-7.1.2-09", "DEF", "No FPDU can be sent before both frames are known (marker use unknown)"},
	{
		"MPA-7.1.2-14", "MUST",
		"Responder receives and validates at least one FPDU before sending any FPDU or marker (rule 4)",
	},
	{"DDP-4.1-07", "MUST", "Rsvd is zero on transmit, not checked on receive"},
	{"DDP-4.1-08", "MUST", "DV=1 and the same in all segments of a stream"},
	{"DDP-4.2-04", "MUST", "All segments of a tagged message carry the same RsvdULP"},
	{"DDP-4.2-05", "MUST", "All segments of a tagged message carry the same STag, the one the ULP gave"},
	{"DDP-4.3-02", "MUST", "RsvdULP(40) is set by the ULP and equal in all segments of a message"},
	{"DDP-4.3-07", "MUST", "First MSN of each queue of a stream is 1"},
	{"DDP-4.3-08", "MUST", "MSN grows by one modulo 2^32 with each message on that queue of that stream"},
	{"DDP-4.3-09", "MUST", "MSN 0xFFFFFFFF is followed by 0 (not by 1)"},
	{"DDP-4.3-10", "MUST", "MSN is equal in all segments of a message"},
	{"DDP-4.3-11", "MUST", "MO of the first octet of a message is 0"},
	{"DDP-4.4-01", "MUST", "Every segment has a DDP header; payload is optional"},
	{"DDP-5.2-02", "MUST", "ULP message length is below 2^32"},
	{"DDP-5.2-05", "MUST", "Untagged MO = octet offset of the segment's payload in the message"},
	{"DDP-5.2-06", "MUST", "ULP gives STag and first TO; TO of each segment = first TO + offset in message"},
	{"DDP-5.3-01", "MUST", "Source transmits messages in submission order"},
	{
		"RDMAP-4.1-03", "MUST",
		"For Send, Send SE, Read Request and Terminate that field is zero on send, ignored on receive",
	},
	{"RDMAP-4.1-04", "MUST", "T flag per opcode: Write and Read Response tagged, the rest untagged"},
	{"RDMAP-4.1-06", "MUST", "RV=01b (00b is RDMA Consortium, valid only when negotiated by MPA)"},
	{"RDMAP-4.1-07", "MUST", "Rsv bits zero on send, ignored on receive"},
	{"RDMAP-4.1-08", "MUST", "QN per opcode: 0 Sends, 1 Read Request, 2 Terminate"},
	{
		"RDMAP-4.4-01", "MUST",
		"Read Request header: SinkSTag32 SinkTO64 RDMARDSZ32 SrcSTag32 SrcTO64, 28 octets after the DDP header",
	},
	{"RDMAP-4.4-02", "MUST", "SinkSTag is copied without interpretation into the Read Response (SinkTO too)"},
	{
		"RDMAP-4.8-01", "MUST",
		"Terminate header: 32-bit word Layer(4) EType(4) Code(8) M D R Reserved(13), then optional 16-bit DDP " +
			"Segment Length, DDP header, RDMA header, with no alignment between them",
	},
	{"RDMAP-4.8-02", "MUST", "Terminate control values are those of figure 9 (IANA table)"},
	{"RDMAP-4.8-04", "MUST", "Reserved(13) zero on send, ignored on receive"},
	{"RDMAP-4.8-05", "MUST", "DDP Segment Length is valid when M is set and present when D is set"},
	{"RDMAP-5.2-01", "MUST", "A Read is one Request and one Response"},
	{"RDMAP-5.2.1-09", "MUST", "A valid Request gets a valid Response"},
	{"RDMAP-5.2.2-04", "MUST", "Responses go to DDP in the order the Requests came"},
	{"RDMAP-5.4-07", "MUST NOT", "After sending a Terminate nothing more is sent on the stream"},
	{"RDMAP-6.1-04", "MUST NOT", "Outbound Reads never exceed ORD"},
	{"RDMAP-7.2-02", "MUST", "Opcode is valid, else 0/2/06"},
	{"MPA2-5-02", "MUST NOT", "Initiator sends no other FPDU before the RTR indication"},
	{"MPA2-9.1-03", "SHOULD", "Responder ORD at or below initiator IRD (also stated as MUST: at most)"},
	{"MPA2-9.1-10", "MUST", "Initiator ORD 0x3FFF: responder keeps its IRD and answers IRD 0x3FFF"},
	{"MPA2-9.1-12", "MUST", "Initiator IRD 0x3FFF: responder keeps its ORD and answers ORD 0x3FFF"},
	{"MPA2-9.2-02", "MUST", "Initiator: A=1 for peer-to-peer with every RTR type it supports set; A=0 otherwise"},
	{"MPA2-9.2-04", "MUST", "Responder copies A from the Request (1 to 1, 0 to 0)"},
	{"MPA2-9.2-08", "MUST", "Initiator on accept with A=1 generates one negotiated RTR type, its choice"},
	{"MPA2-9.2-10", "MUST", "A=0: B, C, D sent as 0 and ignored on receive"},
	{"MPA2-10-01", "MUST", "Enhanced Request to an enhanced responder gets an enhanced Reply"},
	{"MPA2-10-02", "MUST", "Unenhanced Request gets an unenhanced Reply from every responder"},
	{"MPA2-10-03", "MUST NOT", "Enhanced formats are not used when no enhanced function is wanted"},
	{"EXT-4.1-02", "MUST", "Invalidate STag field zero on send, ignored on receive"},
	{"EXT-4.1-03", "MUST", "All untagged; QN 0 Immediate, QN 1 Atomic Request, QN 3 Atomic Response"},
	{
		"EXT-5.2.1-01", "DEF",
		"Request header 52 octets: Rsvd28 AOpCode4, ReqId32, STag32, TO64, Add/Swap Data64, Add/Swap Mask64, Compare " +
			"Data64, Compare Mask64",
	},
	{
		"EXT-5.2.1-02", "DEF",
		"Reserved zero on send and ignored; Request Identifier chosen by the requester and reflected",
	},
	{"EXT-5.2.1-03", "DEF", "FetchAdd sends Compare Data 0 and Compare Mask all ones, both ignored by the receiver"},
	{"EXT-5.2.1-04", "MUST", "AOpCodes 0 FetchAdd and 2 CmpSwap are implemented (1 reserved)"},
	{"EXT-5.2.2-01", "DEF", "Response header 12 octets: Original ReqId32, Original Value64"},
	{"EXT-5.2.2-06", "DEF", "Invalid response surfaces an error"},
	{
		"EXT-5.4-06", "MUST",
		"With Reads and atomics mixed on QN 1, Read Response and Atomic Response are generated in Request order " +
			"(section 7 table)",
	},
	{"EXT-6.3-06", "MUST", "Sender passes exactly 8 octets"},
}
