// Package ipsec asks the Linux kernel whether its IPsec policy protects a
// connection, so that a device can do without MPA's CRC there and only there:
//
//	checker, err := ipsec.New()
//	...
//	device, err := iwarp.NewDevice(&iwarp.DeviceConfig{
//		CRCSuppression: &iwarp.CRCSuppression{
//			Protection: "ESP between these hosts",
//			Covers:     checker.Covers,
//		},
//	})
//
// RFC 5044 section 4.4 (https://www.rfc-editor.org/rfc/rfc5044#section-4.4) wants
// protection at least as strong as an end-to-end CRC32c, and names IPsec's
// integrity check as such. [Checker.Check] therefore says yes only if, in both
// directions, the policy that the kernel applies to the flow requires ESP, the
// security associations that serve it check integrity, and ESP ends at the two
// addresses of the connection. Whatever it cannot tell is a no.
//
// The answer holds for the moment when it is given, which is the start of the
// connection. That IKE deletes or replaces associations later changes nothing:
// the policy still lets no packet through without a new one, and RFC 7146 section 3
// (https://www.rfc-editor.org/rfc/rfc7146#section-3) says that it is no reason to
// drop a connection. An administrator who takes the policy itself away takes the
// protection from the connections that started under it.
//
// # What it does not see
//
// Policies of single sockets (IP_XFRM_POLICY), security labels, and the marks and interfaces that
// routing rules give to packets: a policy that asks for one is taken to apply
// when that makes the answer no, and not to apply otherwise. So connections over
// XFRM interfaces count as not covered.
//
// The kernel tells only processes with the capability CAP_NET_ADMIN, in the user
// namespace that owns the network namespace. Others get an error from Covers,
// with which the CRC stays on.
package ipsec
