package fault

import "testing"

// A panic that tells of no fault goes on with its value.
func TestOfOtherPanics(t *testing.T) {
	if e := Of(nil); e != nil {
		t.Errorf("no panic is the fault %v", e)
	}
	defer func() {
		if r := recover(); r != "another" {
			t.Errorf("the panic is %v, want that of another", r)
		}
	}()
	t.Errorf("another panic is the fault %v", Of("another"))
}
