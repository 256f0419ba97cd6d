package cli

import "os"

func (b *benchClient) writeHTML() error { return os.WriteFile(b.HTML, nil, 0o644) }
